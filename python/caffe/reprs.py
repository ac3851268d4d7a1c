"""The repr() of the package's objects: names, shapes, types, devices."""
from ._caffe import (Blob, BlobVec, Device, Layer, LayerParameter, Net, Solver, Step, TRAIN,
                     _printable)
from .names import listed

_MOST = 4


def _blob_text(name, blob):
    return '%s %s' % (name, tuple(blob.shape))


def _blobs_text(net, names):
    text = ', '.join(_blob_text(name, net.blobs[name]) for name in names[:_MOST]) or 'nothing'
    return text + (' and %d more' % (len(names) - _MOST) if len(names) > _MOST else '')


def _blob(self):
    text = '%s: %s %s on %s' % (self.name or 'without a name', tuple(self.shape), self._type_name,
                                self.device.name)
    if self.range is not None:
        text += ', %g to %g' % self.range
    return '<caffe.Blob %s>' % text


def _blobs(self):
    return '[%s]' % ', '.join(repr(blob) for blob in self)


def _types(net):
    found = list(dict.fromkeys(blob._type_name for blob in net.blobs.values()))
    return '/'.join(found) or 'no blobs'


def _net(self):
    try:
        name = self.name
    except TypeError:
        return '<caffe.%s that was not made>' % type(self).__name__
    return '<caffe.%s %s: %s -> %s, %d layers, %s, phase %s, on %s>' % (
        type(self).__name__, name or 'without a name', _blobs_text(self, self.inputs),
        _blobs_text(self, self.outputs), len(self.layers), _types(self),
        'TRAIN' if self._phase == TRAIN else 'TEST', self.device.name)


def _layer(self):
    shapes = ', '.join(str(tuple(blob.shape)) for blob in self.blobs)
    name = type(self).__name__
    return '<%s %s: %s, %s on %s%s>' % (
        'caffe.Layer' if name == 'Layer' else name, self.name, self.type, self._type_name,
        self._device.name, ', parameters ' + shapes if shapes else '')


def _layer_parameter(self):
    return '<caffe.LayerParameter %s: %s, %s -> %s>' % (
        self.name, self.type, listed([self.bottom(i) for i in range(self.bottom_size)]),
        listed([self.top(i) for i in range(self.top_size)]))


def _step_numbers(step):
    operations = '-' if step.operations is None else '%.3f' % (step.operations / 1e6)
    return (step.library or '-', step.types, step.layout, step.bytes / 2 ** 20, operations,
            step.workspace_bytes / 2 ** 10)


def _step(self):
    return '<caffe.Step %s: %s, %s, %s, %.3f MiB moved, %s Mop, workspace %.1f KiB>' % (
        (' + '.join(self.layers),) + _step_numbers(self))


def _step_line(self):
    """A line of a table: layers, library, types, and numbers with their units."""
    return '%-40s %-10s %-9s %-9s %9.3f MiB moved %10s Mop %9.1f KiB workspace' % (
        (' + '.join(self.layers),) + _step_numbers(self))


def _device(self):
    return '<caffe.Device %s: number %d, %s>' % (self.name, self.number, self.description)


def _solver(self):
    try:
        net = self.net
    except TypeError:
        return '<caffe.%s that was not made>' % type(self).__name__
    return '<caffe.%s of net %s: iteration %d of %d, lr %g, %s on %s>' % (
        type(self).__name__, net.name or 'without a name', self.iter, self.max_iter, self.lr,
        _types(net), net.device.name)


def _for_a_person(function):
    """The text of function, in which a name from a file cannot change the terminal."""
    def text(self):
        return _printable(function(self))
    return text


for _cls, _function in ((Blob, _blob), (BlobVec, _blobs), (Net, _net), (Layer, _layer),
                        (LayerParameter, _layer_parameter), (Device, _device), (Solver, _solver),
                        (Step, _step)):
    _cls.__repr__ = _for_a_person(_function)
Step.__str__ = _for_a_person(_step_line)
