"""The NumPy view of an input that layers change in place.

After a forward `net.blobs['data']` shows what these layers made, and the next forward computes from
what the caller wrote last. It compares the content to find out whether a view was written. An
assignment of the values that the blob shows is written, too: an `InputView` notes it.
"""
import numpy as np


class InputView(np.ndarray):
    """An array that notes assignments at the blob whose memory it shows."""

    _blob = None
    _addresses = range(0)

    def __array_finalize__(self, source):
        self._blob = getattr(source, '_blob', None)
        self._addresses = getattr(source, '_addresses', range(0))

    def _note(self):
        # A copy of a view has memory of its own.
        if self._blob is not None and self.__array_interface__['data'][0] in self._addresses:
            self._blob._note_written()

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self._note()

    def fill(self, value):
        super().fill(value)
        self._note()

    def __array_wrap__(self, array, context=None, return_scalar=False):
        if array is self:
            return self
        return array[()] if array.ndim == 0 else np.asarray(array)


def input_view(array, blob):
    """An `InputView` of a blob's data."""
    view = array.view(InputView)
    first = view.__array_interface__['data'][0]
    view._blob, view._addresses = blob, range(first, first + view.nbytes)
    return view
