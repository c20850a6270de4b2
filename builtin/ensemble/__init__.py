"""The ensemble-distillation trainer: a small causal model taught by four frozen ones."""
