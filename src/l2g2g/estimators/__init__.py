"""Estimators of scikit-learn's shape, one for each method."""
