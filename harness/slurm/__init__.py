"""Launches on a Slurm cluster, through submitit."""
