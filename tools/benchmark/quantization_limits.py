#!/usr/bin/env python3
"""What 8 bits can reach at most: parts of a net rounded alone, and all of it tuned by gradients.

FILE is that of `quantization_squeezenet.py --export`; the Python needs PyTorch. The net computes in
float with weights and blobs rounded to 8 bits: weights symmetric and per output channel, blobs
per tensor, once behind a convolution and its ReLU, a Concat instead of its inputs. Images 0 to 99
choose the ranges of least squared error and are trained on; the others are classified. Training
changes weights, biases and ranges so that the scores become those of the float net, with
straight-through gradients; no labels are read. Prints signal to noise of the scores, and the
share of images with the class of the float net.
"""
import argparse

CALIBRATION = 100


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('file')
    parser.add_argument('--device', help='of PyTorch (default: cuda if there is one, else cpu)')
    parser.add_argument('--steps', type=int, nargs='*', default=[300, 1500], help='of training')
    parser.add_argument('--rates', type=float, nargs='*', default=[6e-5, 2e-4, 6e-4],
                        help="the first steps of weights, as a part of their layer's deviation")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    import numpy as np
    import torch
    from torch import nn

    from peers import graph, torch_module
    from peers.torch_rounding import Rounded, decibels, scores, tune
    device = arguments.device or ('cuda' if torch.cuda.is_available() else 'cpu')
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    net, arrays = graph.load(arguments.file)
    with np.load(arguments.file + '.images.npz') as file:
        images = torch.from_numpy(file['images']).to(device)
        labels = torch.from_numpy(file['labels'][CALIBRATION:]).to(device)

    def make():
        return torch_module.build(net, arrays)[0].eval().to(device)
    exact_module = make()
    first, others = images[:CALIBRATION], images[CALIBRATION:]
    exact = scores(exact_module, others)
    observer = Rounded(exact_module)
    with torch.no_grad():
        observer.run(first)
    print('PyTorch %s, %s, %d images, float: %d right' % (
        torch.__version__, device, len(others), (exact.argmax(1) == labels).sum()))
    print('| in codes of 8 bits | scores | same class | right |\n|---|---:|---:|---:|')

    def report(title, run):
        found = scores(run, others)
        classes = found.argmax(1)
        print('| %s | %.1f dB | %.2f %% | %d |' % (
            title, decibels(exact, found), 100 * (classes == exact.argmax(1)).double().mean(),
            (classes == labels).sum()), flush=True)
    blobs = [n.name for n in observer.stored]
    weights = [name for name, layer in exact_module.named_modules()
               if isinstance(layer, (nn.Conv2d, nn.Linear))]
    for title, parts in (('the images alone', blobs[:1]), ('all blobs', blobs),
                         ('all weights', weights), ('weights and blobs', None)):
        report(title, Rounded(exact_module, observer.ranges, parts).run)
    for steps in arguments.steps:
        for rate in arguments.rates:
            report('trained, %d steps, rate %g' % (steps, rate),
                   tune(make(), exact_module, first, observer.ranges, steps, rate))


if __name__ == '__main__':
    main()
