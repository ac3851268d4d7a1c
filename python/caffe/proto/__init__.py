"""caffe_pb2, which the build makes from proto/caffe.proto."""
import locale as _locale


def _load():
    # Where the locale has a decimal comma, protobuf cannot read the defaults of fields, such as
    # 0.9, and the import fails.
    before = _locale.setlocale(_locale.LC_NUMERIC)
    _locale.setlocale(_locale.LC_NUMERIC, 'C')
    try:
        from . import caffe_pb2  # noqa: F401
    finally:
        _locale.setlocale(_locale.LC_NUMERIC, before)


_load()
