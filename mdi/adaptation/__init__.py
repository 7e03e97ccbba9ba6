"""MDI adaptation: constraints and histories, the dual problem, its solvers, and what is built on them."""
