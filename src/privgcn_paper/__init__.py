"""The experiments of one paper: its datasets, the released code, tables and claims."""
