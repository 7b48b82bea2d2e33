"""Recipe ``auto``: a linear model of few noisy releases, and prediction by moment matching.

To be read in this order:

1. :mod:`privgcn.auto.recipe`: step size, class priors and names, constants of prediction;
2. :mod:`privgcn.auto.train`: thirty noisy gradients, and what is made of them;
3. :mod:`privgcn.auto.spectrum`: main directions of documents, and propagation along edges;
4. :mod:`privgcn.auto.moment_matching`: prediction of documents that are seen together;
5. :mod:`privgcn.auto.budget`: whether a budget is large enough, before any document is touched.

Everything here sees answers of a ``privgcn.mechanism.Session``, public numbers and the
documents to predict: it is post-processing of what the session released.
"""
