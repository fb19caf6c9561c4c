"""TensorFlow Serving's PredictionService: Predict, Classify, Regress, MultiInference and GetModelMetadata."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf import json_format
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    inference_pb2,
    input_pb2,
    model_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from xmodels.serving.answers import Outputs
from xmodels.serving.examples import as_classes, as_numbers, from_examples
from xmodels.serving.limits import Limits, RequestError
from xmodels.serving.models import Models
from xmodels.serving.questions import DEFAULT, Question, find_signature, from_columns
from xmodels.serving.rpc.calls import CallError, Calls
from xmodels.serving.rpc.features import features_of
from xmodels.serving.rpc.tensors import read_tensor, write_tensors
from xmodels.serving.versions import Version

LARGE = 20_000  # numbers or texts in an answer, from which it is written in a thread of its own
SIGNATURES = "signature_def"  # what GetModelMetadata knows
CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"
Use = Callable[[Version], None]


class Prediction(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers as :predict, :classify and :regress of REST do, by the same queues.

    Args:
        limits: of texts and tensors.
    """

    def __init__(self, calls: Calls, models: Models, limits: Limits):
        self.calls, self.models, self.limits = calls, models, limits

    async def Predict(self, request: predict_pb2.PredictRequest, context: grpc.aio.ServicerContext):
        return await self.calls.answer("predict", self._predict, request, context)

    async def Classify(self, request: classification_pb2.ClassificationRequest, context: grpc.aio.ServicerContext):
        return await self.calls.answer("classify", self._classify, request, context)

    async def Regress(self, request: regression_pb2.RegressionRequest, context: grpc.aio.ServicerContext):
        return await self.calls.answer("regress", self._regress, request, context)

    async def MultiInference(self, request: inference_pb2.MultiInferenceRequest, context: grpc.aio.ServicerContext):
        return await self.calls.answer("multi_inference", self._infer, request, context)

    async def GetModelMetadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, context: grpc.aio.ServicerContext
    ):
        return await self.calls.answer("metadata", self._describe, request, context)

    async def _predict(self, request: predict_pb2.PredictRequest, use: Use) -> predict_pb2.PredictResponse:
        version = find_version(self.models, request)
        use(version)
        with version.in_use():
            try:
                signature = find_signature(request.model_spec.signature_name, version.model.signatures)
            except RequestError as error:
                raise CallError(str(error), grpc.StatusCode.FAILED_PRECONDITION) from None
            names = list(request.output_filter) or list(signature.outputs)
            _check_outputs(names, list(signature.outputs))
            columns = {
                name: read_tensor(proto, signature.inputs.get(name), f"inputs.{name:.60}", self.limits)
                for name, proto in request.inputs.items()
            }
            outputs = await version.batches.ask(from_columns(columns, signature, self.limits))
            response = predict_pb2.PredictResponse(model_spec=_spec(version, signature.name))
            if sum(outputs[name].size for name in names) > LARGE:
                await asyncio.to_thread(write_tensors, outputs, response.outputs, names)
            else:
                write_tensors(outputs, response.outputs, names)
        return response

    async def _classify(self, request: Any, use: Use) -> classification_pb2.ClassificationResponse:
        version, question, outputs = await self._ask(request, request.input, use)
        response = classification_pb2.ClassificationResponse(model_spec=_spec(version, question.signature.name))
        _write_classes(response.result, outputs, question, version)
        return response

    async def _regress(self, request: Any, use: Use) -> regression_pb2.RegressionResponse:
        version, question, outputs = await self._ask(request, request.input, use)
        response = regression_pb2.RegressionResponse(model_spec=_spec(version, question.signature.name))
        _write_numbers(response.result, outputs, question)
        return response

    async def _infer(self, request: Any, use: Use) -> inference_pb2.MultiInferenceResponse:
        if not request.tasks:
            raise RequestError("Inference request is empty: it has no tasks.")
        response = inference_pb2.MultiInferenceResponse()
        for task in request.tasks:
            if task.method_name not in (CLASSIFY, REGRESS):
                raise RequestError(
                    f"Unsupported signature method_name: {task.method_name!r:.60}. Expected {CLASSIFY} or {REGRESS}."
                )
            version, question, outputs = await self._ask(task, request.input, use)
            result = response.results.add(model_spec=_spec(version, question.signature.name))
            if task.method_name == CLASSIFY:
                _write_classes(result.classification_result, outputs, question, version)
            else:
                _write_numbers(result.regression_result, outputs, question)
        return response

    async def _describe(self, request: Any, use: Use) -> get_model_metadata_pb2.GetModelMetadataResponse:
        version = find_version(self.models, request)
        use(version)
        if not request.metadata_field:
            raise RequestError("GetModelMetadataRequest must specify at least one metadata_field.")
        if unknown := [field for field in request.metadata_field if field != SIGNATURES]:
            raise RequestError(f"Metadata field {unknown[0]:.60} is not supported. Expected {SIGNATURES}.")
        found = get_model_metadata_pb2.SignatureDefMap()
        for name, described in version.model.metadata.items():
            json_format.ParseDict(described, found.signature_def[name])
        response = get_model_metadata_pb2.GetModelMetadataResponse(model_spec=_spec(version))
        response.metadata[SIGNATURES].Pack(found)
        return response

    async def _ask(self, task: Any, given: input_pb2.Input, use: Use) -> tuple[Version, Question, Outputs]:
        version = find_version(self.models, task)
        use(version)
        with version.in_use():
            signature = find_signature(task.model_spec.signature_name or DEFAULT, version.model.signatures)
            question = from_examples(*features_of(given), signature, self.limits)
            return version, question, await version.batches.ask(question)


def find_version(models: Models, request: Any) -> Version:
    """Returns the version that answers a request with a `model_spec`.

    Raises:
        RequestError: it names no model, or one that is not served.
    """
    return models.find(*read_spec(request))


def read_spec(request: Any) -> tuple[str, int | None, str | None]:
    """Returns the name, the version and the label of a request with a `model_spec`. Raises a RequestError where it names no model."""
    spec = request.model_spec
    if not request.HasField("model_spec") or not spec.name:
        raise RequestError("Missing ModelSpec: the request names no model.")
    chosen = spec.WhichOneof("version_choice")
    return (
        spec.name,
        spec.version.value if chosen == "version" else None,
        spec.version_label if chosen == "version_label" else None,
    )


def _spec(version: Version, signature: str = "") -> model_pb2.ModelSpec:
    spec = model_pb2.ModelSpec(name=version.folder.name, signature_name=signature)
    spec.version.value = version.number
    return spec


def _check_outputs(names: list[str], known: list[str]) -> None:
    for name in names:
        if name not in known:
            raise RequestError(
                f"output tensor alias not found in signature: {name:.60} Outputs expected to be in the set {{{','.join(known)}}}."
            )
        if names.count(name) > 1:
            raise RequestError(f"duplicate output tensor alias: {name}")


def _write_classes(result: Any, outputs: Outputs, question: Question, version: Version) -> None:
    for row in as_classes(outputs, question, version.labels):
        classes = result.classifications.add().classes
        for label, score in row:
            classes.add(label=label, score=score)


def _write_numbers(result: Any, outputs: Outputs, question: Question) -> None:
    for value in as_numbers(outputs, question):
        result.regressions.add(value=value)
