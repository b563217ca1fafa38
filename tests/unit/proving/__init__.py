"""What holds for all inputs."""
