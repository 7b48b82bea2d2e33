"""The one road: training a classifier, its replicas, runs on disk, releases and searches."""
