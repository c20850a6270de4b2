"""A completed run in the formats of others: in-toto and SLSA, Workflow Run RO-Crate."""
