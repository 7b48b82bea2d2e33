"""The mechanism: clipping, exact sums, noise and the centre."""
