"""Weights in HDF5: save_hdf5 and load_hdf5."""
import numpy as np
import pytest

import caffe
from nets import small_net


def make():
    caffe.set_device('cpu')
    return caffe.Net(small_net(), caffe.TRAIN)


def test_weights_come_back(tmp_path):
    net, other = make(), make()
    path = tmp_path / 'w.caffemodel.h5'
    net.save_hdf5(path)
    for load in (other.load_hdf5, other.copy_from):
        for blobs in other.params.values():
            for blob in blobs:
                blob.data[...] = 0
        load(str(path))
        for name, blobs in net.params.items():
            for i, blob in enumerate(blobs):
                assert np.array_equal(blob.data, other.params[name][i].data)
                assert blob.data.any()


def test_gradients_are_written_when_asked_for(tmp_path):
    net, other = make(), make()
    net.params['ip'][1].diff[...] = 3
    net.save_hdf5(str(tmp_path / 'a.h5'), True)
    other.load_hdf5(tmp_path / 'a.h5')
    assert (other.params['ip'][1].diff == 3).all()


def test_other_files_are_errors(tmp_path):
    path = tmp_path / 'a.h5'
    with pytest.raises(RuntimeError, match='File not found'):
        make().load_hdf5(path)
    path.write_text('no HDF5')
    with pytest.raises(RuntimeError, match='is not an HDF5 file'):
        make().load_hdf5(path)
