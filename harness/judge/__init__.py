"""What a published causal model finds of samples; runs in the sandbox, on torch and tokenizers."""
