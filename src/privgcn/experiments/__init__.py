"""The paper's experiments: grids, runners, records, tables and figures."""
