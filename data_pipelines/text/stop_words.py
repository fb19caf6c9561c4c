"""English words that stand for nothing by themselves: articles, pronouns, prepositions, conjunctions, auxiliaries."""

STOP_WORDS = frozenset(
    """
    a an the this that these those such same other another each every either neither both all any some no none few many
    much more most several enough own one ones
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves who whom whose which what whatever whoever someone something somebody
    anyone anything anybody everyone everything everybody nobody nothing
    of in on at by for with about against between into onto through during before after above below to from up down out off
    over under upon toward towards within without across along around behind beside beyond near since until till
    and or but nor so yet if than because as while although though unless whether once
    am is are was were be been being do does did doing done have has had having can could may might must shall should will
    would ought
    not only very too just also even still again ever never here there when where why how then now almost quite rather
    first let got get like back away
    """.split()
)
