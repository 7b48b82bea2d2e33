"""The paper's experiments: grids, runners, records, tables and figures."""

from privgcn.experiments.grid import Experiment, Grid, Task

__all__ = ["Experiment", "Grid", "Task"]
