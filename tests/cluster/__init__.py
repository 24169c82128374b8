"""A real Kubernetes node of this machine, built from packages, and the project's manifests on it."""
