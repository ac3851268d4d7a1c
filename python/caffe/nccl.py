"""BVLC Caffe's NCCL class, for scripts that train on several GPUs, which is not supported."""

_WHY = ('caffe.NCCL: training on several GPUs is not supported; train on one: '
        'caffe.set_device(0) and solver.solve(), or `caffe train -gpu 0`')


class NCCL:
    """Not supported: the constructor and new_uid raise a RuntimeError."""

    def __init__(self, *arguments):
        raise RuntimeError(_WHY)

    @staticmethod
    def new_uid():
        """Raises a RuntimeError."""
        raise RuntimeError(_WHY)
