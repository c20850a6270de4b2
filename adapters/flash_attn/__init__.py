"""flash-attn's attention of packed queries, keys and values, on PyTorch's own attention.

The package has no wheels, and needs a GPU; the upstreams import it unconditionally. What they
call is here, under the package's names and with its meanings; all else is absent.
"""

from flash_attn import flash_attn_interface
from flash_attn.flash_attn_interface import (
    flash_attn_qkvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)

__all__ = ["flash_attn_interface", "flash_attn_qkvpacked_func", "flash_attn_varlen_qkvpacked_func"]
