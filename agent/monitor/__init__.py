"""Monitoring groups, samples, metrics."""
