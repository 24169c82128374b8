"""Restarts every process of an installation under load, and proves that nothing was lost or done twice."""
