"""What leaves training, as bytes."""

import numpy as np
from safetensors.numpy import load

from privgcn.config import Settings
from privgcn.released import Released


def test_the_same_tensors_give_the_same_bytes_in_any_order():
    weight = np.arange(6, dtype=np.float32).reshape(2, 3).T
    bias = np.ones(2, np.float32)
    first = Released("gcn", {"weight": weight, "bias": bias}, Settings())
    second = Released("gcn", {"bias": bias, "weight": weight}, Settings())
    made = first.serialised({"statement": "x"})
    assert made == second.serialised({"statement": "x"})
    assert {name: value.tolist() for name, value in load(made).items()} == {
        "weight": weight.tolist(),
        "bias": bias.tolist(),
    }
