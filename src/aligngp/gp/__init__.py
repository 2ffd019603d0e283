"""Gaussian processes: the sparse one behind latents and mappings, and expectations under Gaussian inputs."""
