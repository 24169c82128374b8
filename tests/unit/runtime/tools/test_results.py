from services.runtime.domain.tools import cut_result


def test_a_result_is_given_as_it_can_be_stored() -> None:
    assert cut_result("a\x00b") == "a\N{REPLACEMENT CHARACTER}b"
    assert cut_result("\ud83d\ude00\ud83d") == "😀�"
    assert cut_result("abc", 2) == "ab\n[cut: 3 characters in all]"
