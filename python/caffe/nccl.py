"""BVLC Caffe's NCCL class, for scripts that train on several GPUs: it says why they cannot here."""

_WHY = ('caffe.NCCL: training on several GPUs is not supported; train on one: '
        'caffe.set_device(0) and solver.solve(), or `caffe train -gpu 0`')


class NCCL:
    """Not supported: making one, or asking for an identifier, raises a RuntimeError."""

    def __init__(self, *arguments):
        raise RuntimeError(_WHY)

    @staticmethod
    def new_uid():
        """Raises a RuntimeError: there is nothing to identify."""
        raise RuntimeError(_WHY)
