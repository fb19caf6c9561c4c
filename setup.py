"""Packaging; build and tool settings stand in pyproject.toml."""

from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="xmodels",
    version="0.1.0",
    description="Pretrain, fine-tune, compare and ship Transformer-family language models with Keras and TensorFlow",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=find_packages(include=["xmodels*", "data_pipelines*", "launch*"]),
    python_requires=">=3.11,<3.14",
    install_requires=[
        "tensorflow>=2.20,<2.22",
        "keras>=3.15.1",
        "tensorflow-text>=2.20,<2.22,!=2.21.0",  # the wheels of 2.21.0 do not load
        "keras-nlp>=0.20",
        "tensorflow-datasets>=4.9.7",
        "absl-py>=2.1",
        "backports.zstd>=1.0",  # Zstandard as Python 3.14 has it
        "numpy>=1.26",
        "tokenizers>=0.21",
        "sentencepiece>=0.2.3",  # the first that gives offsets in characters
        "safetensors>=0.5",
        "google-crc32c>=1.6",
        "jieba>=0.42.1",
        "matplotlib>=3.8",
        "opencc>=1.1.9",
        "psutil>=5.9",
        "rbloom>=1.5.2",
        "rensa>=0.5",
        "rjieba>=0.2",
        "sacrebleu>=2.4",
        "seqeval>=1.2.2",
        "tensorboard>=2.20",
        "tqdm>=4.66",
    ],
    extras_require={
        "beam": ["apache-beam>=2.77"],
        "parquet": ["pyarrow>=15"],
        "gpu": ["tensorflow[and-cuda]>=2.20,<2.22"],
        "ltp": ["ltp>=4.2.14"],
        "notebook": ["ipykernel>=6.29", "nbclient>=0.10"],
        "tpu-preflight": ["jax>=0.10.2,<0.11", "libtpu>=0.0.51,<0.1"],  # the compiler for TPUs, without a TPU
        "test": ["pyarrow>=15", "pytest>=8", "pytest-xdist>=3.8", "hypothesis>=6.100", "pyyaml>=6"],
        "lint": ["ruff==0.17.5"],
    },
    entry_points={"console_scripts": ["xmodels=launch.__main__:main"]},
)
