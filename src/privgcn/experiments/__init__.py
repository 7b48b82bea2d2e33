"""Experiments: grids of runs, engines that run them, records, tables and figures of them."""

from privgcn.experiments.grid import Experiment, Grid
from privgcn.experiments.tasks import Task

__all__ = ["Experiment", "Grid", "Task"]
