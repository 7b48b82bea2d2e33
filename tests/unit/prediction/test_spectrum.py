"""Main directions and axes of documents."""

import torch

from privgcn.prediction.spectrum import Whitening


def test_axes_are_found_where_many_directions_are_silent() -> None:
    """On two threads a decomposition in float32 fails in one case of three."""
    before = torch.get_num_threads()
    generator = torch.Generator().manual_seed(0)
    try:
        torch.set_num_threads(2)
        for silent in torch.linspace(0.05, 0.95, 20):
            values = torch.randn(1000, 300, generator=generator) * torch.logspace(0, -3, 300)
            values[:, torch.rand(300, generator=generator) < silent] = 0.0
            told = values[:, values.abs().amax(0) > 0]
            turned, alone = (Whitening.of(rows, 0.0)(rows) for rows in (values, told))
            # Axes may be turned and mirrored; how documents lie to each other may not.
            assert torch.allclose(turned @ turned.T, alone @ alone.T, atol=1e-4)
    finally:
        torch.set_num_threads(before)
