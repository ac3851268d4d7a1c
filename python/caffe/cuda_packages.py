"""Where Python's packages of CUDA libraries are. Imports none of them."""
import importlib.util
import os


def cudnn_folder():
    """The folder of libcudnn.so.9 in the package nvidia.cudnn; None if it is not installed."""
    try:
        spec = importlib.util.find_spec('nvidia.cudnn')
    except (ImportError, ValueError):  # the parent package is missing or not a package
        return None
    for location in (spec and spec.submodule_search_locations) or ():
        folder = os.path.join(location, 'lib')
        if os.path.exists(os.path.join(folder, 'libcudnn.so.9')):
            return folder
    return None


def set_environment():
    """Sets CAFFE_CUDNN for the library, unless it is set."""
    if 'CAFFE_CUDNN' in os.environ:
        return
    folder = cudnn_folder()
    if folder:
        os.environ['CAFFE_CUDNN'] = folder
