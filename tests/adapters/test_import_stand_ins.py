"""mamba-ssm and causal-conv1d can be imported as the upstreams do, and say so when called."""

import causal_conv1d
import mamba_ssm.ops.selective_scan_interface
import mamba_ssm.ops.triton.selective_state_update
import pytest

FUNCTIONS = {
    "causal-conv1d": [causal_conv1d.causal_conv1d_fn, causal_conv1d.causal_conv1d_update],
    "mamba-ssm": [
        mamba_ssm.ops.selective_scan_interface.mamba_inner_fn,
        mamba_ssm.ops.selective_scan_interface.selective_scan_fn,
        mamba_ssm.ops.triton.selective_state_update.selective_state_update,
    ],
}


@pytest.mark.parametrize("package", FUNCTIONS)
def test_a_call_names_the_package(package: str) -> None:
    for function in FUNCTIONS[package]:
        with pytest.raises(NotImplementedError, match=f"^{package}: .* can only be imported"):
            function(1, key=2)


def test_a_kernel_that_upstreams_can_do_without_is_absent() -> None:
    with pytest.raises(ImportError):
        import mamba_ssm.ops.triton.layernorm  # noqa: F401
