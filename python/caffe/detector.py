"""A net that classifies windows of images (R-CNN's way of detection)."""
import os

import numpy as np

from . import io
from ._caffe import TEST
from .classifier import make_transformer
from .pycaffe import Net


class Detector(Net):
    """A Net in the TEST phase that is run on crops of images.

    `context_pad` is the number of pixels of context around a window, counted in the net's input.
    """

    def __init__(self, model_file, pretrained_file, mean=None, input_scale=None, raw_scale=None,
                 channel_swap=None, context_pad=None, python_layers=True):
        Net.__init__(self, model_file, TEST, weights=pretrained_file, python_layers=python_layers)
        self.transformer = make_transformer(self, mean, input_scale, raw_scale, channel_swap)
        self.configure_crop(context_pad)

    def detect_windows(self, images_windows):
        """Runs the net on windows.

        `images_windows` is a list of (image file, list of windows), a window being (ymin, xmin,
        ymax, xmax). Returns a list of dicts with filename, window and prediction.
        """
        crops, places = [], []
        for filename, windows in images_windows:
            image = io.load_image(filename).astype(np.float32)
            for window in windows:
                crops.append(self.crop(image, np.asarray(window)))
                places.append((filename, window))
        if not crops:
            return []
        name = self.inputs[0]
        data = np.array([self.transformer.preprocess(name, crop) for crop in crops])
        predictions = self.forward_all(**{name: data})[self.outputs[0]]
        return [{'window': window, 'prediction': prediction.squeeze(), 'filename': filename}
                for (filename, window), prediction in zip(places, predictions)]

    def detect_selective_search(self, image_fnames):
        """detect_windows on the proposals of selective search (the package of that name)."""
        import selective_search_ijcv_with_python as selective_search
        filenames = [os.path.abspath(name) for name in image_fnames]
        windows = selective_search.get_windows(filenames, cmd='selective_search_rcnn')
        return self.detect_windows(zip(image_fnames, windows))

    def crop(self, im, window):
        """The window of an image, with its context; pixels outside the image are the mean."""
        ymin, xmin, ymax, xmax = (int(round(float(value))) for value in window)
        if not self.context_pad:
            return im[ymin:ymax, xmin:xmax]
        size = self.blobs[self.inputs[0]].shape[2]
        scale = size / (size - 2.0 * self.context_pad)
        center_y, center_x = (ymin + ymax) / 2.0, (xmin + xmax) / 2.0
        half_h, half_w = (ymax - ymin) * scale / 2.0, (xmax - xmin) * scale / 2.0
        top, left = int(round(center_y - half_h)), int(round(center_x - half_w))
        bottom, right = int(round(center_y + half_h)), int(round(center_x + half_w))
        result = np.empty((size, size, im.shape[2]), dtype=np.float32)
        result[...] = self.crop_mean
        inside = im[max(top, 0):min(bottom, im.shape[0]), max(left, 0):min(right, im.shape[1])]
        if bottom <= top or right <= left or inside.size == 0:
            return result
        # The position of the part inside the image.
        y_scale, x_scale = size / (bottom - top), size / (right - left)
        pad_y = int(round(max(-top, 0) * y_scale))
        pad_x = int(round(max(-left, 0) * x_scale))
        height = min(int(round(inside.shape[0] * y_scale)), size - pad_y)
        width = min(int(round(inside.shape[1] * x_scale)), size - pad_x)
        if height > 0 and width > 0:
            result[pad_y:pad_y + height, pad_x:pad_x + width] = io.resize_image(
                inside, (height, width))
        return result

    def configure_crop(self, context_pad):
        """Sets the context around windows; pixels outside the image become the mean image's."""
        self.context_pad = context_pad
        self.crop_mean = 0.0
        name = self.inputs[0]
        if not context_pad or name not in self.transformer.mean:
            return
        mean = np.broadcast_to(self.transformer.mean[name], self.transformer.inputs[name][1:])
        # Preprocessing must map the mean to zero: undo the operations before its subtraction.
        scale = self.transformer.input_scale.pop(name, None)
        self.crop_mean = self.transformer.deprocess(name, np.zeros_like(mean))
        if scale is not None:
            self.transformer.input_scale[name] = scale
