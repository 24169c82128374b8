from services.runtime.domain.tools import cut_result


def test_a_result_is_given_as_it_can_be_stored() -> None:
    assert cut_result("a\x00b") == "a\N{REPLACEMENT CHARACTER}b"
    assert cut_result("\ud83d\ude00\ud83d") == "😀�"
    assert cut_result("abc", 2) == "ab\n[truncated: 3 characters in total]"


def test_a_result_that_was_cut_before_says_so() -> None:
    assert cut_result("abc", cut=True) == "abc\n[truncated: more than 3 characters in total]"
    assert cut_result("abc", 2, cut=True) == "ab\n[truncated: more than 3 characters in total]"
