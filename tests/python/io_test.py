import sys

import numpy as np
import pytest

import caffe
from caffe.proto import caffe_pb2


def test_a_blob_with_the_old_shape():
    blob = caffe_pb2.BlobProto(data=[123.0] * 100, num=1, channels=4, height=5, width=5)
    array = caffe.io.blobproto_to_array(blob)
    assert array.shape == (1, 4, 5, 5) and (array == 123).all()


def test_a_blob_with_a_shape_and_its_diff():
    data, diff = np.arange(12.).reshape(3, 4), np.ones((3, 4))
    blob = caffe.io.array_to_blobproto(data, diff)
    assert list(blob.shape.dim) == [3, 4] and len(blob.data) == 12
    np.testing.assert_array_equal(caffe.io.blobproto_to_array(blob), data)
    np.testing.assert_array_equal(caffe.io.blobproto_to_array(blob, True), diff)
    with pytest.raises(ValueError, match='a diff of shape'):
        caffe.io.array_to_blobproto(data, np.ones(3))


def test_a_blob_without_a_shape_is_refused_and_one_without_axes_is_not():
    with pytest.raises(ValueError):
        caffe.io.blobproto_to_array(caffe_pb2.BlobProto(data=[1.0, 2.0]))
    array = caffe.io.blobproto_to_array(caffe.io.array_to_blobproto(np.array(7)))
    assert array.shape == () and array == 7


def test_packed_types():
    def packed(data_type, data):
        return caffe.io.blobproto_to_array(caffe_pb2.BlobProto(
            shape=dict(dim=[2]), packed_data=data.tobytes(), data_type=data_type))
    half = packed(caffe_pb2.CAFFE_HALF, np.array([1.5, -2], np.float16))
    assert half.dtype == np.float32 and list(half) == [1.5, -2]
    wide = packed(caffe_pb2.CAFFE_BFLOAT16, np.array([0x3fc0, 0xc000], np.uint16))
    assert wide.dtype == np.float32 and list(wide) == [1.5, -2]
    codes = packed(caffe_pb2.CAFFE_INT8_QUANTIZED, np.array([0, 255], np.uint8))
    assert codes.dtype == np.uint8 and list(codes) == [0, 255]


def test_a_vector_of_blobs():
    arrays = [np.ones((2, 3)), np.zeros(4)]
    text = caffe.io.arraylist_to_blobprotovector_str(arrays)
    for array, back in zip(arrays, caffe.io.blobprotovector_str_to_arraylist(text)):
        np.testing.assert_array_equal(array, back)


def test_a_datum_of_bytes_and_one_of_floats():
    image = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    datum = caffe.io.array_to_datum(image, 5)
    assert datum.label == 5 and len(datum.data) == 24
    np.testing.assert_array_equal(caffe.io.datum_to_array(datum), image)
    floats = caffe.io.array_to_datum(image / 7.)
    assert not floats.HasField('label') and not floats.data
    np.testing.assert_allclose(caffe.io.datum_to_array(floats), image / 7., rtol=1e-6)
    # The label is not part of the array.
    assert len(caffe.io.array_to_datum(image, 5).SerializeToString()) > len(
        caffe.io.array_to_datum(image).SerializeToString())
    with pytest.raises(ValueError, match='channels, height and width'):
        caffe.io.array_to_datum(np.zeros(3))


def test_images_load_as_float_rgb_or_gray(tmp_path):
    from PIL import Image
    path = str(tmp_path / 'image.png')
    pixels = np.zeros((2, 3, 3), np.uint8)
    pixels[0, 0] = 255, 0, 0
    Image.fromarray(pixels).save(path)
    color = caffe.io.load_image(path)
    assert color.shape == (2, 3, 3) and color.dtype == np.float32
    assert list(color[0, 0]) == [1, 0, 0] and color[1:].max() == 0
    gray = caffe.io.load_image(path, color=False)
    assert gray.shape == (2, 3, 1) and gray[0, 0, 0] == pytest.approx(0.2125)


def test_resizing_keeps_a_ramp_a_ramp():
    ramp = np.tile(np.arange(8, dtype=np.float32)[:, None, None], (1, 4, 2))
    half = caffe.io.resize_image(ramp, (4, 4))
    np.testing.assert_allclose(half[:, 0, 0], [0.5, 2.5, 4.5, 6.5])
    twice = caffe.io.resize_image(ramp, (16, 8))
    np.testing.assert_allclose(twice[:, 5, 1], np.clip((np.arange(16) + .5) / 2 - .5, 0, 7))
    np.testing.assert_array_equal(caffe.io.resize_image(ramp, (4, 4), 0)[:, 0, 0], [1, 3, 5, 7])


def test_oversample_gives_corners_centre_and_mirrors():
    image = np.arange(16, dtype=np.float32).reshape(4, 4, 1)
    crops = caffe.io.oversample([image, image + 100], (2, 2))
    assert crops.shape == (20, 2, 2, 1)
    assert [crop[0, 0, 0] for crop in crops[:5]] == [0, 2, 8, 10, 5]
    np.testing.assert_array_equal(crops[5:10], crops[:5, :, ::-1])
    assert crops[10, 0, 0, 0] == 100


def transformer():
    made = caffe.io.Transformer({'data': (1, 3, 4, 4)})
    made.set_transpose('data', (2, 0, 1))
    made.set_channel_swap('data', (2, 1, 0))
    made.set_raw_scale('data', 255)
    made.set_mean('data', np.array([10., 20., 30.]))
    made.set_input_scale('data', 0.5)
    return made


def test_preprocess_by_hand_and_back():
    image = np.random.RandomState(0).rand(4, 4, 3).astype(np.float32)
    kept = image.copy()
    out = transformer().preprocess('data', image)
    assert out.shape == (3, 4, 4) and out.dtype == np.float32
    np.testing.assert_allclose(out[0], (image[:, :, 2] * 255 - 10) * 0.5, rtol=1e-5)
    np.testing.assert_array_equal(image, kept)
    np.testing.assert_allclose(transformer().deprocess('data', out), image, atol=1e-5)


def test_preprocess_resizes_to_the_input():
    assert transformer().preprocess('data', np.zeros((9, 7, 3))).shape == (3, 4, 4)


def test_a_mean_image_of_another_size_is_resized():
    made = transformer()
    made.set_mean('data', np.full((3, 8, 8), 5.0))
    np.testing.assert_allclose(made.mean['data'], np.full((3, 4, 4), 5.0))
    rising = np.arange(3 * 64, dtype=np.float32).reshape(3, 8, 8)
    made.set_mean('data', rising)
    np.testing.assert_allclose(made.mean['data'],
                               rising.reshape(3, 4, 2, 4, 2).mean(axis=(2, 4)), rtol=1e-4)


def test_settings_that_do_not_fit_the_input_are_refused():
    made = transformer()
    with pytest.raises(ValueError, match='is not one of the inputs'):
        made.set_raw_scale('image', 1)
    with pytest.raises(ValueError, match='2 means for 3 channels'):
        made.set_mean('data', np.zeros(2))
    with pytest.raises(ValueError, match='an order of 2'):
        made.set_channel_swap('data', (0, 1))
    with pytest.raises(ValueError, match='2 axes'):
        made.set_transpose('data', (0, 1))


def test_an_image_without_pillow_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, 'PIL', None)
    with pytest.raises(ImportError, match='load_image needs Pillow: python3 -m pip install pillow'):
        caffe.io.load_image('image.png')
