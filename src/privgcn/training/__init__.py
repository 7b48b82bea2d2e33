"""Training: recipes, optimisers, plain and private trainers."""
