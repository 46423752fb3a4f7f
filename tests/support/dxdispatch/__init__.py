"""Models of DxDispatch for tests."""
