"""The experiments of one paper, made with privgcn: datasets, released code, tables and claims."""
