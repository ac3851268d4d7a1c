"""How threads of OpenMP wait for work; GCC's OpenMP reads it when it is loaded."""
import contextlib
import os

# Rounds of the loop in which a thread waits before it sleeps. With the default, 300,000, it takes
# the cores that it waits for away from itself while other processes use them, too. The command sets
# the same number.
ROUNDS = 2000


@contextlib.contextmanager
def bounded():
    """Bounds the waiting of an OpenMP that is loaded inside; the environment is restored.

    Changes nothing if OMP_WAIT_POLICY or GOMP_SPINCOUNT is set, nor for an OpenMP that another package
    has loaded before.
    """
    if 'OMP_WAIT_POLICY' in os.environ or 'GOMP_SPINCOUNT' in os.environ:
        yield
        return
    os.environ['GOMP_SPINCOUNT'] = str(ROUNDS)
    try:
        yield
    finally:
        os.environ.pop('GOMP_SPINCOUNT', None)
