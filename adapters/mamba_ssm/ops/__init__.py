"""Operations of mamba-ssm that the upstreams import."""
