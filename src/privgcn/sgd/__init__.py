"""The paper's method done soundly: networks trained by DP-SGD and DP-Adam on subgraphs."""
