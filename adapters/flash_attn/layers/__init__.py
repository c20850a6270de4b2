"""flash-attn's layers: of them, the upstreams use the rotary embedding."""
