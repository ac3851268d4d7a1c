#!/usr/bin/env python3
"""CaffeNet as a NetSpec script: writes deploy.prototxt and train_val.prototxt into its folder.

AlexNet with pooling before normalisation and with biases that start at 1.
"""
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imagenet import write  # noqa: E402

_spec = importlib.util.spec_from_file_location(
    'alexnet_generate', os.path.join(os.path.dirname(HERE), 'alexnet', 'generate.py'))
alexnet = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(alexnet)

SIZE = alexnet.SIZE


def deploy(**options):
    """The net for deployment: images in, probabilities out. Options as of AlexNet's."""
    return alexnet.deploy(name='CaffeNet', bias=1, pool_first=True, **options)


def train_val(**options):
    """The net of both phases."""
    return alexnet.train_val(name='CaffeNet', bias=1, pool_first=True, **options)


if __name__ == '__main__':
    write(HERE, deploy=deploy(), train_val=train_val())
