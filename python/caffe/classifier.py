"""A net that classifies images."""
import numpy as np

from . import io
from ._caffe import TEST
from .pycaffe import Net


def make_transformer(net, mean, input_scale, raw_scale, channel_swap):
    """The Transformer of a net's first input, for images of height x width x channels."""
    name = net.inputs[0]
    transformer = io.Transformer({name: tuple(net.blobs[name].shape)})
    transformer.set_transpose(name, (2, 0, 1))
    if mean is not None:
        transformer.set_mean(name, mean)
    if input_scale is not None:
        transformer.set_input_scale(name, input_scale)
    if raw_scale is not None:
        transformer.set_raw_scale(name, raw_scale)
    if channel_swap is not None:
        transformer.set_channel_swap(name, channel_swap)
    return transformer


def check_images(images):
    """Raises unless images are a sequence of height x width x channels."""
    for image in images:
        shape = np.shape(image)
        if len(shape) == 3:
            continue
        text = 'an image is height x width x channels, but one has the shape %s' % (shape,)
        if np.ndim(images) == 3 and np.shape(images)[-1] in (1, 3, 4):
            raise ValueError(text + '; give a list of images: [image]')
        if len(shape) == 2:
            text += '; give image[:, :, numpy.newaxis]'
        raise ValueError(text)


class Classifier(Net):
    """A Net in the TEST phase with image preparation.

    Images are resized to `image_dims` (height, width; the input's own by default) and cropped to the
    net's input.
    """

    def __init__(self, model_file, pretrained_file, image_dims=None, mean=None, input_scale=None,
                 raw_scale=None, channel_swap=None, python_layers=True):
        Net.__init__(self, model_file, TEST, weights=pretrained_file, python_layers=python_layers)
        self.transformer = make_transformer(self, mean, input_scale, raw_scale, channel_swap)
        self.crop_dims = np.array(self.blobs[self.inputs[0]].shape[2:])
        self.image_dims = image_dims if image_dims is not None else tuple(self.crop_dims)

    def predict(self, inputs, oversample=True):
        """Probabilities, images x classes, for images of height x width x channels.

        With `oversample` the mean over ten crops, else the centre crop's.
        """
        check_images(inputs)
        images = [io.resize_image(image, self.image_dims) for image in inputs]
        if oversample:
            crops = io.oversample(images, self.crop_dims)
        else:
            top, left = (np.array(self.image_dims) - self.crop_dims) // 2
            height, width = self.crop_dims
            crops = [image[top:top + height, left:left + width] for image in images]
        name = self.inputs[0]
        data = np.array([self.transformer.preprocess(name, crop) for crop in crops])
        predictions = self.forward_all(**{name: data})[self.outputs[0]]
        if oversample:
            predictions = predictions.reshape(len(images), 10, -1).mean(axis=1)
        return predictions
