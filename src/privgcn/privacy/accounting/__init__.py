"""Accounting: from what ran to epsilon, and from epsilon to the least noise."""
