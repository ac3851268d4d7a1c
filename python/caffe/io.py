"""Images and arrays: loading, preparing a net's input, and the messages BlobProto and Datum."""
import numpy as np

from . import _caffe, bfloat16
from .codes import unpacked
from .proto import caffe_pb2


# --- messages -------------------------------------------------------------------------------------

_PACKED_TYPES = {caffe_pb2.CAFFE_HALF: '<f2', caffe_pb2.CAFFE_INT8_QUANTIZED: 'u1',
                 caffe_pb2.CAFFE_INT16_QUANTIZED: '<u2', caffe_pb2.CAFFE_BFLOAT16: '<u2'}


def _proto_shape(blob):
    if blob.HasField('shape'):
        return tuple(blob.shape.dim)
    if any(blob.HasField(name) for name in ('num', 'channels', 'height', 'width')):
        return blob.num, blob.channels, blob.height, blob.width
    return ()


def _custom_codes(blob, packed):
    count = np.prod(_proto_shape(blob), dtype=int)
    return np.frombuffer(packed, dtype='<u%d' % (len(packed) // max(count, 1) or 1))


def blobproto_to_array(blob, return_diff=False):
    """The array of a BlobProto: float32, or float64 if that is what it holds.

    Packed half and bfloat16 and types of users become float32; packed quantized types, and types of
    users whose blobs have a scale, their codes.
    """
    values, doubles, packed = ((blob.diff, blob.double_diff, blob.packed_diff) if return_diff
                               else (blob.data, blob.double_data, blob.packed_data))
    if len(values):
        array = np.array(values, dtype=np.float32)
    elif len(doubles):
        array = np.array(doubles, dtype=np.float64)
    elif packed and blob.data_type in _PACKED_TYPES:
        array = np.frombuffer(packed, dtype=_PACKED_TYPES[blob.data_type]).copy()
        if blob.data_type == caffe_pb2.CAFFE_BFLOAT16:
            array = bfloat16.to_float(array)
        elif blob.data_type == caffe_pb2.CAFFE_HALF:
            array = array.astype(np.float32)
    elif packed and blob.data_type == caffe_pb2.CAFFE_CUSTOM:
        array = _custom_codes(blob, packed)
        if _caffe._is_packed(blob.data_type_name):
            array = unpacked(np.frombuffer(packed, dtype=np.uint8), _proto_shape(blob))
        if not _caffe._is_scaled(blob.data_type_name):
            array = _caffe._values_of_codes(blob.data_type_name, array)
    else:
        array = np.zeros(0, dtype=np.float32)
    return array.reshape(_proto_shape(blob))


def read_net(path):
    """The caffe_pb2.NetParameter in a prototxt; nets of older forms are upgraded."""
    return caffe_pb2.NetParameter.FromString(_caffe._read_net(path))


def array_to_blobproto(arr, diff=None):
    """A BlobProto with an array's shape and values, and optionally those of its diff."""
    arr = np.asarray(arr)
    blob = caffe_pb2.BlobProto()
    blob.shape.SetInParent()
    blob.shape.dim.extend(arr.shape)
    # Also for float64: programs that read such files (a mean image) expect `data`.
    blob.data.extend(arr.astype(float).ravel())
    if diff is not None:
        diff = np.asarray(diff)
        if diff.shape != arr.shape:
            raise ValueError('a diff of shape %s for data of shape %s' % (diff.shape, arr.shape))
        blob.diff.extend(diff.astype(float).ravel())
    return blob


def arraylist_to_blobprotovector_str(arraylist):
    """Arrays as the bytes of a BlobProtoVector."""
    vector = caffe_pb2.BlobProtoVector()
    vector.blobs.extend(array_to_blobproto(array) for array in arraylist)
    return vector.SerializeToString()


def blobprotovector_str_to_arraylist(data):
    """The arrays in the bytes of a BlobProtoVector."""
    return [blobproto_to_array(blob) for blob in caffe_pb2.BlobProtoVector.FromString(data).blobs]


def array_to_datum(arr, label=None):
    """A Datum with an array of channels x height x width: bytes if it is uint8, else floats."""
    arr = np.asarray(arr)
    if arr.ndim != 3:
        raise ValueError('a datum has channels, height and width, not shape %s' % (arr.shape,))
    datum = caffe_pb2.Datum()
    datum.channels, datum.height, datum.width = arr.shape
    if arr.dtype == np.uint8:
        datum.data = arr.tobytes()
    else:
        datum.float_data.extend(arr.astype(float).ravel())
    if label is not None:
        datum.label = int(label)
    return datum


def datum_to_array(datum):
    """The channels x height x width array of a Datum; the label is not part of it."""
    if datum.encoded:
        raise ValueError('the datum holds an encoded image: decode it first')
    if len(datum.data):
        array = np.frombuffer(datum.data, dtype=np.uint8).copy()
    else:
        array = np.array(datum.float_data, dtype=float)
    return array.reshape(datum.channels, datum.height, datum.width)


# --- images ---------------------------------------------------------------------------------------


def load_image(filename, color=True):
    """An image file as float32 in [0, 1], height x width x 3 (RGB), or x 1 without colour."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('caffe.io.load_image needs Pillow: python3 -m pip install pillow') from error
    with Image.open(filename) as image:
        if image.mode.startswith('I;16') or image.mode in ('I', 'F'):
            gray = np.asarray(image, dtype=np.float32)[:, :, np.newaxis]
            gray = gray / 65535.0 if image.mode != 'F' else gray
            return np.tile(gray, (1, 1, 3)) if color else gray
        array = np.asarray(image.convert('RGB'), dtype=np.float32) / 255.0
    if color:
        return array
    # The luminance of ITU-R BT.709.
    weights = np.array([0.2125, 0.7154, 0.0721], dtype=np.float32)
    return (array @ weights)[:, :, np.newaxis]


def _resize_axis(im, axis, size, order):
    """Resamples one axis between pixel centres; the border pixels are repeated."""
    old = im.shape[axis]
    if old == size:
        return im
    position = (np.arange(size) + 0.5) * (old / size) - 0.5
    if order == 0:
        return im.take(np.clip(np.floor(position + 0.5).astype(int), 0, old - 1), axis=axis)
    position = np.clip(position, 0, old - 1)
    low = np.floor(position).astype(int)
    high = np.minimum(low + 1, old - 1)
    shape = [1] * im.ndim
    shape[axis] = size
    weight = (position - low).astype(np.float32).reshape(shape)
    return im.take(low, axis=axis) * (1 - weight) + im.take(high, axis=axis) * weight


def resize_image(im, new_dims, interp_order=1):
    """An image (height x width x channels) in new (height, width).

    `interp_order` 0 takes the nearest pixel, 1 interpolates linearly, without a filter before that.
    """
    if interp_order not in (0, 1):
        raise ValueError('interpolation of order %s; the orders are 0 and 1' % interp_order)
    im = np.asarray(im, dtype=np.float32)
    im = _resize_axis(im, 0, int(new_dims[0]), interp_order)
    return _resize_axis(im, 1, int(new_dims[1]), interp_order).astype(np.float32, copy=False)


def oversample(images, crop_dims):
    """Ten crops of each image: four corners and the centre, then the same five mirrored."""
    images = [np.asarray(image) for image in images]
    height, width = images[0].shape[:2]
    crop_h, crop_w = int(crop_dims[0]), int(crop_dims[1])
    if crop_h > height or crop_w > width:
        raise ValueError('a crop of %dx%d from an image of %dx%d' % (crop_h, crop_w, height, width))
    tops = [0, height - crop_h]
    lefts = [0, width - crop_w]
    corners = [(top, left) for top in tops for left in lefts]
    corners.append(((height - crop_h) // 2, (width - crop_w) // 2))
    crops = np.empty((10 * len(images), crop_h, crop_w, images[0].shape[-1]), dtype=np.float32)
    for i, image in enumerate(images):
        for k, (top, left) in enumerate(corners):
            crop = image[top:top + crop_h, left:left + crop_w]
            crops[10 * i + k] = crop
            crops[10 * i + 5 + k] = crop[:, ::-1]
    return crops


class Transformer:
    """Prepares images for a net's inputs: resize, transpose, swap channels, scale, subtract the mean.

    `inputs` maps an input's name to its shape (batch, channels, height, width). Settings are per
    input; `preprocess` applies them, `deprocess` reverts them.
    """

    def __init__(self, inputs):
        self.inputs = {name: tuple(shape) for name, shape in inputs.items()}
        self.transpose = {}
        self.channel_swap = {}
        self.raw_scale = {}
        self.mean = {}
        self.input_scale = {}

    def __check_input(self, in_):
        if in_ not in self.inputs:
            raise ValueError('%s is not one of the inputs %s' % (in_, sorted(self.inputs)))

    def preprocess(self, in_, data):
        """An image (height x width x channels) as the net's input (without the batch axis)."""
        self.__check_input(in_)
        array = np.array(data, dtype=np.float32)  # a copy: the caller's image is not changed
        in_dims = self.inputs[in_][2:]
        if array.shape[:2] != in_dims:
            array = resize_image(array, in_dims)
        if in_ in self.transpose:
            array = array.transpose(self.transpose[in_])
        if in_ in self.channel_swap:
            array = array[list(self.channel_swap[in_])]
        if in_ in self.raw_scale:
            array = array * np.float32(self.raw_scale[in_])
        if in_ in self.mean:
            array = array - self.mean[in_]
        if in_ in self.input_scale:
            array = array * np.float32(self.input_scale[in_])
        return np.ascontiguousarray(array, dtype=np.float32)

    def deprocess(self, in_, data):
        """The image that `preprocess` would convert to this input, in the input's size."""
        self.__check_input(in_)
        array = np.array(data, dtype=np.float32).squeeze()
        if array.ndim == 2:
            array = array[np.newaxis]
        if in_ in self.input_scale:
            array = array / np.float32(self.input_scale[in_])
        if in_ in self.mean:
            array = array + self.mean[in_]
        if in_ in self.raw_scale:
            array = array / np.float32(self.raw_scale[in_])
        if in_ in self.channel_swap:
            array = array[np.argsort(self.channel_swap[in_])]
        if in_ in self.transpose:
            array = array.transpose(np.argsort(self.transpose[in_]))
        return array

    def set_transpose(self, in_, order):
        """The order of the axes: (2, 0, 1) makes channels x height x width."""
        self.__check_input(in_)
        if len(order) != len(self.inputs[in_]) - 1:
            raise ValueError('%s: %d axes for an input of %d'
                             % (in_, len(order), len(self.inputs[in_]) - 1))
        self.transpose[in_] = tuple(order)

    def set_channel_swap(self, in_, order):
        """The order of the channels: (2, 1, 0) makes BGR from RGB."""
        self.__check_input(in_)
        if len(order) != self.inputs[in_][1]:
            raise ValueError('%s: an order of %d for %d channels'
                             % (in_, len(order), self.inputs[in_][1]))
        self.channel_swap[in_] = tuple(order)

    def set_raw_scale(self, in_, scale):
        """A factor before the mean is subtracted: 255 for models trained on [0, 255]."""
        self.__check_input(in_)
        self.raw_scale[in_] = scale

    def set_mean(self, in_, mean):
        """The mean to subtract: one number per channel, or an array of channels x height x width.

        An array of another size is scaled to [0, 1], resized to the input's size, and scaled back.
        """
        self.__check_input(in_)
        mean = np.asarray(mean, dtype=np.float32)
        channels, *in_dims = self.inputs[in_][1:]
        if mean.ndim == 1:
            if len(mean) != channels:
                raise ValueError('%s: %d means for %d channels' % (in_, len(mean), channels))
            mean = mean[:, np.newaxis, np.newaxis]
        else:
            if mean.ndim == 2:
                mean = mean[np.newaxis]
            if mean.ndim != 3 or len(mean) != channels:
                raise ValueError('%s: a mean of shape %s for %d channels'
                                 % (in_, mean.shape, channels))
            if list(mean.shape[1:]) != in_dims:
                low, high = mean.min(), mean.max()
                spread = high - low if high > low else np.float32(1)
                unit = resize_image(((mean - low) / spread).transpose(1, 2, 0), in_dims)
                mean = unit.transpose(2, 0, 1) * spread + low
        self.mean[in_] = mean

    def set_input_scale(self, in_, scale):
        """A factor after the mean was subtracted."""
        self.__check_input(in_)
        self.input_scale[in_] = scale
