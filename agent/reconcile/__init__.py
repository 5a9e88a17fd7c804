"""Policy + machine + workloads → desired state; desired − observed → plan; plan → machine; and the fast path."""
