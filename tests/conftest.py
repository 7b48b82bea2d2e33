"""Shared by all tests. That this file is here makes ``brute_force`` beside it importable."""

import os

# Tests may run side by side; one thread each is fastest. Before anything imports torch.
os.environ.setdefault("OMP_NUM_THREADS", "1")
