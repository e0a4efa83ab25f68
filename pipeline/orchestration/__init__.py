"""What belongs to Prefect beside the flows: artifacts, deployments, clusters."""
