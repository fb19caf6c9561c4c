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
    package_data={
        "xmodels": ["py.typed", "*.pyi"],
        "data_pipelines": ["py.typed"],
        "launch": ["py.typed"],
        "xmodels.jobs.fetch": ["networks.toml"],
        "xmodels.jobs.quickstart": ["plans.toml"],
        "xmodels.serving": ["page/*"],
    },
    python_requires=">=3.11,<3.14",
    # Lower bounds are the oldest versions that were tried, or, with a comment, the first without a known vulnerability.
    install_requires=[
        "tensorflow>=2.20,<2.22",  # those of 2023 and before, such as CVE-2023-25668, are fixed in 2.12
        # Above the fixes of what saved models may run and read: CVE-2024-3660, CVE-2025-1550, -8747, -9905, -9906, -12058, -12060,
        # CVE-2026-1462
        "keras>=3.15.1",
        "tensorflow-text>=2.20,<2.22,!=2.21.0",  # the wheels of 2.21.0 do not load
        "keras-nlp>=0.20",
        "tensorflow-datasets>=4.9.7",
        "absl-py>=2.1",
        "backports.zstd>=1.0",  # Zstandard as Python 3.14 has it
        "numpy>=1.26",  # CVE-2021-34141 and its kin are fixed in 1.22
        "tokenizers>=0.21",
        "sentencepiece>=0.2.3",  # the first that gives offsets in characters; CVE-2026-1260 (models) is fixed in 0.2.1
        "safetensors>=0.5",
        "google-crc32c>=1.6",
        "jieba>=0.42.1",
        "matplotlib>=3.8",
        "opencc>=1.1.9",
        "protobuf>=6.33.5",  # CVE-2025-4565 and CVE-2026-0994: nested messages without end
        "psutil>=5.9",
        "pyyaml>=6",  # plans of comparisons; CVE-2020-14343 is fixed in 5.4
        "rbloom>=1.5.2",
        "rensa>=0.5",
        "rjieba>=0.2",
        "sacrebleu>=2.4",
        "scikit-learn>=1.5",  # CVE-2024-5206: words of the training text in what is saved
        "scipy>=1.15",  # the first whose tests take `rng`
        "seqeval>=1.2.2",
        "tensorboard>=2.20",
        "tqdm>=4.66.3",  # CVE-2024-34062
        # Not ours: what the packages above bring, and may bring too old.
        "pillow>=12.3",  # CVE-2026-25990, -40192, -54058, -55379, -59198, -59200, -59204, -59205: pictures
        "requests>=2.33",  # CVE-2024-47081: passwords to other hosts; CVE-2026-25645: temporary files
        "urllib3>=2.7",  # CVE-2025-66418, -66471, CVE-2026-21441, -44431, -44432: compressed answers without end
    ],
    extras_require={
        "beam": ["apache-beam>=2.77"],
        "dask": ["apache-beam[dask]>=2.77"],
        "rouge": ["rouge-score>=0.1.2"],  # scores of summaries; brings nltk, which takes a second to import
        "parquet": ["pyarrow>=15"],  # CVE-2023-47248 (code in files) is fixed in 14.0.1
        "search": ["faiss-cpu>=1.8"],  # indices that are graphs; exact ones need nothing
        "serve": [
            "starlette>=0.49.1",  # CVE-2025-62727: ranges of files; CVE-2024-47874 and -2025-54121: forms
            "uvicorn>=0.34",
            "h11>=0.16",  # CVE-2025-43859: bodies in chunks
            "prometheus-client>=0.20",
        ],
        # TensorFlow Serving's protocol beside REST. Its 2.21 goes with TensorFlow 2.21, and with protobuf 7.
        "grpc": ["tensorflow-serving-api>=2.21", "grpcio>=1.70", "grpcio-health-checking>=1.70"],
        # Networks in files of their own; docs/decisions/export-formats.md
        "onnx": ["tf2onnx>=1.17", "onnx>=1.23", "onnxruntime>=1.32"],  # CVE-2026-27489 is fixed in onnx 1.21
        "litert": ["ai-edge-litert>=2.3"],
        "numba": ["numba>=0.63"],  # steps of word vectors; docs/decisions/word-steps.md
        "serve-test": ["httpx>=0.27", "playwright>=1.49"],  # the page is tried in a Chromium of the system
        "gpu": ["tensorflow[and-cuda]>=2.20,<2.22"],
        "ltp": ["ltp>=4.2.14", "torch>=2.6"],  # CVE-2025-32434: `weights_only` ran code
        "notebook": ["ipykernel>=6.29", "nbclient>=0.10"],
        "tpu-preflight": ["jax>=0.10.2,<0.11", "libtpu>=0.0.51,<0.1"],  # the compiler for TPUs, without a TPU
        "test": [
            "pyarrow>=15",
            "pytest>=9.0.3",
            "pytest-xdist>=3.8",
            "hypothesis>=6.100",
        ],  # pytest: CVE-2025-71176
        "lint": ["ruff==0.17.5", "mypy==2.4.1", "pip-audit>=2.9"],
        "docs": ["sphinx>=8.2,<10", "myst-parser>=4,<6", "furo>=2025.7"],  # docs/decisions/documentation-site.md
    },
    entry_points={"console_scripts": ["xmodels=launch.__main__:main"]},
)
