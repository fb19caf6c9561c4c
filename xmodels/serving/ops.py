"""The ops of the graphs that are served: arithmetic on tensors, tables, and texts. None reaches a file, a process or a network.

The list is what exports hold or could hold: a network of ours, its way from text to ids, and its way from numbers to answers.
TensorFlow has many more ops; those that read and write files are spread over all of its parts, so what is not known here is not run.
"""

from collections.abc import Iterator

from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.framework import op_def_registry

_TABLES = {
    "array": """
        BatchToSpace BatchToSpaceND Bitcast BroadcastArgs BroadcastTo CheckNumerics CheckNumericsV2 Concat ConcatOffset ConcatV2
        ConjugateTranspose Const DeepCopy DepthToSpace Diag DiagPart EditDistance Empty EnsureShape ExpandDims ExtractImagePatches
        ExtractVolumePatches Fill Fingerprint Gather GatherNd GatherV2 GuaranteeConst Identity IdentityN InvertPermutation ListDiff
        LowerBound MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiag
        MatrixSetDiagV2 MatrixSetDiagV3 MirrorPad OneHot OnesLike Pack Pad PadV2 ParallelConcat Placeholder PlaceholderV2
        PlaceholderWithDefault RaggedCross RaggedFillEmptyRows RaggedGather Rank Reshape Reverse ReverseSequence ReverseV2 ScatterNd
        ScatterNdNonAliasingAdd Shape ShapeN Size Slice Snapshot SpaceToBatch SpaceToBatchND SpaceToDepth Split SplitV Squeeze
        StridedSlice StridedSliceAssign TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate
        TensorStridedSliceUpdate Tile Transpose Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack UnravelIndex UpperBound
        Where ZerosLike
    """,
    "math": """
        Abs Acos Acosh Add AddN AddV2 All Angle Any ApproximateEqual ArgMax ArgMin Asin Asinh Atan Atan2 Atanh BatchMatMul
        BatchMatMulV2 BatchMatMulV3 BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e
        BesselY0 BesselY1 Betainc Bincount BitwiseAnd BitwiseOr BitwiseXor Bucketize Cast Ceil ClipByValue Complex ComplexAbs Conj Cos
        Cosh Cross Cumprod Cumsum CumulativeLogsumexp Dawsn DenseBincount Digamma Div DivNoNan Equal Erf Erfc Erfinv EuclideanNorm Exp
        Expint Expm1 Floor FloorDiv FloorMod FresnelCos FresnelSin Greater GreaterEqual HistogramFixedWidth Igamma Igammac Imag Inv
        Invert IsFinite IsInf IsNan LeftShift Less LessEqual Lgamma LinSpace Log Log1p LogicalAnd LogicalNot LogicalOr MatMul Max
        Maximum Mean Min Minimum Mod Mul MulNoNan Ndtri Neg NextAfter NotEqual Polygamma PopulationCount Pow Prod RaggedBincount
        RaggedRange Range Real RealDiv Reciprocal RequantizationRange RequantizationRangePerChannel RightShift Rint Round Rsqrt
        SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2 SegmentSum SegmentSumV2 Select SelectV2
        Sigmoid Sign Sin Sinh SobolSample SparseBincount SparseMatMul SparseSegmentMean SparseSegmentMeanWithNumSegments
        SparseSegmentSqrtN SparseSegmentSqrtNWithNumSegments SparseSegmentSum SparseSegmentSumWithNumSegments Spence Sqrt Square
        SquaredDifference Sub Sum Tan Tanh TruncateDiv TruncateMod UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd
        UnsortedSegmentSum Xdivy Xlog1py Xlogy Zeta
    """,
    "linear algebra and spectra": """
        BandedTriangularSolve Cholesky Eig Einsum FFT FFT2D FFT3D FFTND IFFT IFFT2D IFFT3D IFFTND IRFFT IRFFT2D IRFFT3D IRFFTND
        LogMatrixDeterminant Lu MatrixDeterminant MatrixExponential MatrixInverse MatrixLogarithm MatrixSolve MatrixSolveLs
        MatrixSquareRoot MatrixTriangularSolve Qr RFFT RFFT2D RFFT3D RFFTND SelfAdjointEig SelfAdjointEigV2 Svd TridiagonalMatMul
        TridiagonalSolve
    """,
    "networks": """
        ApproxTopK AvgPool AvgPool3D BiasAdd BiasAddV1 BlockLSTM BlockLSTMV2 Conv Conv2D Conv3D DataFormatDimMap DataFormatVecPermute
        DepthwiseConv2dNative Dilation2D Elu FractionalAvgPool FractionalMaxPool FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3
        FusedPadConv2D FusedResizeAndPadConv2D GRUBlockCell InTopK InTopKV2 IsotonicRegression L2Loss LRN LSTMBlockCell LeakyRelu
        LogSoftmax MaxPool MaxPool3D MaxPoolV2 MaxPoolWithArgmax NthElement Relu Relu6 Selu Softmax SoftmaxCrossEntropyWithLogits
        Softplus Softsign SparseSoftmaxCrossEntropyWithLogits TopK TopKV2
    """,
    "texts": """
        AsString DecodeBase64 DecodePaddedRaw DecodeRaw EncodeBase64 ReduceJoin RegexFullMatch RegexReplace StaticRegexFullMatch
        StaticRegexReplace StringFormat StringJoin StringLength StringLower StringNGrams StringSplit StringSplitV2 StringStrip
        StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringUpper Substr UnicodeDecode UnicodeDecodeWithOffsets
        UnicodeEncode UnicodeScript UnicodeTranscode UnsortedSegmentJoin
    """,
    "lists": """
        EmptyTensorList RaggedTensorFromVariant RaggedTensorToSparse RaggedTensorToTensor RaggedTensorToVariant TensorListConcat
        TensorListConcatLists TensorListConcatV2 TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem
        TensorListLength TensorListPopBack TensorListPushBack TensorListPushBackBatch TensorListReserve TensorListResize
        TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack
    """,
    "random": """
        StatelessMultinomial StatelessParameterizedTruncatedNormal StatelessRandomBinomial StatelessRandomGammaV2
        StatelessRandomGammaV3 StatelessRandomGetAlg StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg
        StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomPoisson StatelessRandomUniform StatelessRandomUniformFullInt
        StatelessRandomUniformFullIntV2 StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessRandomUniformV2
        StatelessShuffle StatelessTruncatedNormal StatelessTruncatedNormalV2
    """,
    "flow": """
        Assert Case ControlTrigger Enter Exit For If LoopCond Merge NextIteration NoOp PartitionedCall StatefulPartitionedCall
        StatelessCase StatelessIf StatelessWhile StopGradient Switch TensorArrayGatherV3 TensorArrayReadV3 TensorArrayScatterV3
        TensorArraySizeV3 TensorArrayV3 TensorArrayWriteV3 ToBool While
    """,
    "variables and tables": """
        AssignVariableOp DisableCopyOnRead HashTableV2 LookupTableFindV2 LookupTableImportV2 LookupTableSizeV2 ReadVariableOp
        ResourceGather ResourceGatherNd VarHandleOp VarIsInitializedOp VariableShape
    """,
    "sparse tensors": """
        SparseFillEmptyRows SparseReorder SparseReshape SparseSlice SparseTensorDenseMatMul SparseToDense StringSplitV2
    """,
    "tensorflow-text": """
        CaseFoldUTF8 ConstrainedSequence FastBertNormalize FastWordpieceTokenizeWithOffsets FindSourceOffsets MaxSpanningTree
        NormalizeUTF8 NormalizeUTF8WithOffsetsMap PhraseTokenize RegexSplitWithOffsets RougeL SentenceFragments SentenceFragmentsV2
        SentencepieceDetokenizeOp SentencepieceIdToStringOp SentencepieceOp SentencepieceStringToIdOp SentencepieceTokenizeOp
        SentencepieceTokenizeWithOffsetsOp SentencepieceVocabSizeOp SplitMergeTokenizeWithOffsets TFText>BoiseTagsToOffsets
        TFText>ByteSplitByOffsets TFText>ByteSplitWithOffsets TFText>FastSentencepieceDetokenize TFText>FastSentencepieceTokenize
        TFText>FastWordpieceDetokenize TFText>NgramsStringJoin TFText>OffsetsToBoiseTags TFText>PhraseDetokenize
        TFText>RoundRobinGenerateMasks TFText>RoundRobinTrim TFText>Utf8Binarize TFText>WhitespaceTokenizeWithOffsetsV2
        TokenizerFromLogits UnicodeScriptTokenizeWithOffsets WhitespaceTokenizeWithOffsets WordpieceTokenizeWithOffsets
    """,
}
ALLOWED = frozenset(name for names in _TABLES.values() for name in names.split())
# Those by which `tf.saved_model.save` stores variables. They stand in functions of their own, which nothing that is served may reach.
SAVING = frozenset(("MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename"))


def refused_ops(graph: meta_graph_pb2.MetaGraphDef) -> set[str]:
    """Returns the ops of a SavedModel that may not run: those that are not `ALLOWED`, and those of `SAVING` where a signature
    reaches them.

    A function that has the name of an op counts as that op.
    """
    functions = {each.signature.name: each for each in graph.graph_def.library.function}
    saver = {name.partition(":")[0] for name in (graph.saver_def.save_tensor_name, graph.saver_def.restore_op_name)}
    begins = set(graph.object_graph_def.concrete_functions)
    begins |= {each.gradient_func for each in graph.graph_def.library.gradient}
    for node in graph.graph_def.node:
        if node.name not in saver:
            begins |= set(_called_functions(node, functions))
    served = _reachable_functions(begins, functions)
    refused = {name for name in functions if op_def_registry.get(name) is not None}
    refused |= {node.op for node in graph.graph_def.node} - ALLOWED - set(functions)
    for name, function in functions.items():
        swapped = (
            name in served or "api_implements" in function.attr
        )  # TensorFlow may put such a function in another's place
        known = ALLOWED if swapped else ALLOWED | SAVING
        refused |= {node.op for node in function.node_def} - known - set(functions)
    return refused


def _called_functions(node: node_def_pb2.NodeDef, functions) -> Iterator[str]:
    """Yields the functions that a node names, as its op or as an attribute."""
    if node.op in functions:
        yield node.op
    for value in node.attr.values():
        yield from (each.name for each in (value.func, *value.list.func) if each.name)


def _reachable_functions(names: set[str], functions) -> set[str]:
    """Returns these functions and all that they call."""
    reached, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name in reached or name not in functions:
            continue
        reached.add(name)
        for node in functions[name].node_def:
            waiting.extend(_called_functions(node, functions))
    return reached
