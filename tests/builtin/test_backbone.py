"""The transformer: the papers' names, and parts against their definitions."""

import math

import pytest
import torch
from backbone import Block, DiT, Rotary, Shape
from small_models import perturbed

SHAPE = Shape(vocabulary=7, length=5, hidden=16, condition=8, blocks=2, heads=2, dropout=0.1)


def test_state_has_the_names_and_order_of_the_papers_checkpoints() -> None:
    block = [f"{name}.weight" for name in ("norm1", "attn_qkv", "attn_out", "norm2")]
    block += [f"mlp.{i}.{kind}" for i in (0, 2) for kind in ("weight", "bias")]
    block += [f"adaLN_modulation.{kind}" for kind in ("weight", "bias")]
    ends = ["norm_final.weight", "linear.weight", "linear.bias"]
    ends += ["adaLN_modulation.weight", "adaLN_modulation.bias"]
    wanted = ["vocab_embed.embedding"]
    wanted += [f"sigma_map.mlp.{i}.{kind}" for i in (0, 2) for kind in ("weight", "bias")]
    wanted += [f"blocks.{n}.{name}" for n in range(12) for name in block]
    wanted += [f"output_layer.{name}" for name in ends]
    with torch.device("meta"):
        model = DiT(Shape(30_522, 128, 768, 128, 12, 12, 0.1))
    assert [name for name, _ in model.named_parameters()] == wanted
    assert set(model.state_dict()) == {*wanted, "rotary_emb.inv_freq"}
    rows = {
        name: tuple(model.state_dict()[name].shape)
        for name in ("vocab_embed.embedding", "output_layer.linear.weight")
    }
    assert set(rows.values()) == {(30_522, 768)}


def test_attention_is_softmax_of_turned_queries_and_keys() -> None:
    block = perturbed(Block(SHAPE).double())
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    turns = Rotary(8).double()(5)
    q, k, v = (part.view(2, 5, 2, 8).transpose(1, 2) for part in block.attn_qkv(x).chunk(3, -1))
    scores = Rotary.turn(q, turns) @ Rotary.turn(k, turns).transpose(-1, -2) / math.sqrt(8)
    mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(2, 5, 16)
    torch.testing.assert_close(block.attention(x, turns), block.attn_out(mixed))


def test_rotary_turns_pairs_by_position_times_frequency() -> None:
    x = torch.randn(4, 6, dtype=torch.float64)
    turned = Rotary.turn(x, Rotary(6).double()(4))
    for place in range(4):
        for pair in range(3):
            angle = place * 10_000 ** (-2 * pair / 6)
            first, second = x[place, pair].item(), x[place, pair + 3].item()
            assert turned[place, pair].item() == pytest.approx(
                first * math.cos(angle) - second * math.sin(angle), abs=1e-6
            )
            assert turned[place, pair + 3].item() == pytest.approx(
                second * math.cos(angle) + first * math.sin(angle), abs=1e-6
            )


def test_a_fresh_model_is_uniform_and_a_one_hot_row_is_its_token() -> None:
    model = DiT(SHAPE).eval()
    ids, sigma = torch.randint(0, 7, (3, 5)), torch.rand(3)
    assert torch.all(model(ids, sigma) == 0)
    perturbed(model)
    weights = torch.nn.functional.one_hot(ids, 7).float()
    torch.testing.assert_close(model(ids, sigma), model(weights, sigma))


def test_noise_level_and_every_position_matter() -> None:
    model = perturbed(DiT(SHAPE).eval())
    ids = torch.randint(0, 7, (1, 5))
    first = model(ids, torch.tensor([0.1]))
    assert not torch.equal(first, model(ids, torch.tensor([2.0])))
    ids[0, 4] = (ids[0, 4] + 1) % 7
    assert (model(ids, torch.tensor([0.1])) - first)[0, 0].abs().max() > 1e-4


def test_low_precision_is_near_and_its_result_is_float32() -> None:
    full = perturbed(DiT(SHAPE).eval(), 0.1)
    low = DiT(SHAPE, torch.bfloat16).eval()
    low.load_state_dict(full.state_dict())
    ids, sigma = torch.randint(0, 7, (3, 5)), torch.rand(3)
    logits = low(ids, sigma)
    assert logits.dtype == torch.float32
    assert not torch.equal(logits, full(ids, sigma))
    torch.testing.assert_close(logits, full(ids, sigma), rtol=0.1, atol=0.05)
